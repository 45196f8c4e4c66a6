"""Small builders of reference networks and weightless transformer graphs."""
