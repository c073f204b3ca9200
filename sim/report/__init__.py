"""Pages and figures: one frame for all, one file of charts for each thing that is shown."""
