"""Text in, audio out over one socket: protocol, sentence buffer and session of `/v1/tts/stream`."""
