"""The paper's Section 3 and its appendix algorithms, and nothing else."""
