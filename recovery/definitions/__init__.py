"""What users import: effects, workflows, calls, answers, rejections. Knows no engine, no driver and no storage."""
