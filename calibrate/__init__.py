"""What it costs: step costs measured on a device, or fitted to other people's measurements."""
