"""Which operators run on the crossbars and when: exact methods and baselines."""
