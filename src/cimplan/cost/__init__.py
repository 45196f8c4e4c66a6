"""Host profiling and the analytic models: what each operator costs at each place."""
