"""The agent: the paper's Sections 2 and 3 and its appendix algorithms; Double DQN and prioritised replay (P75)."""
