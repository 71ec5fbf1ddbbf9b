"""The world behind the ports: processes, NVML, the host, SQLite."""
