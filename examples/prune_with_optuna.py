"""Tune the learning rate and stop bad runs early, with Optuna (pip install optuna)."""

from dataclasses import replace

import optuna

import eva


class Prune(eva.Callback):
    def evaluation(self, run: eva.Run, evaluation: eva.Evaluation) -> None:
        trial.report(evaluation.episode_returns.mean(), run.step)
        if trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            run.stop("pruned")


study = optuna.create_study(direction="maximize")
for trial in (study.ask() for _ in range(20)):
    config, rate = eva.for_environment("CartPole-v1"), trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True)
    evaluation = replace(config.evaluation, period_transitions=2_000, num_episodes=10, weights=(0.4,))
    config = replace(config, steps=20_000, learner=replace(config.learner, learning_rate=rate), evaluation=evaluation)
    eva.train(config, f"runs/optuna/trial-{trial.number}", callbacks=[Prune()])
    study.tell(trial, eva.list_runs(f"runs/optuna/trial-{trial.number}")[0].late_return, skip_if_finished=True)
print(study.best_params, study.best_value)
