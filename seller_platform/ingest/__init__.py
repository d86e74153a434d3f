"""Where the API meets the warehouse: authorisation, discovery, and the load of one slice; no Dagster."""
