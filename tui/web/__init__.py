"""The screen in a browser: `gpudeck --web`. Needs the extra `web`."""
