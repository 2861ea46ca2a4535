"""Jobs: long texts that are spoken in the background, kept on disk, and resumed after a crash.

`state` decides, `folder` and `database` store, `store` keeps the two in step, `jobs` is the face towards the event
loop, `lane` speaks, `intake` checks what was asked for, `events`, `ranges` and `renditions` answer.
"""
