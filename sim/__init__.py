"""What happens: models, hardware, cost, engines, driver, metrics."""
