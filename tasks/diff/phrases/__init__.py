"""The English of verdicts, one module per family: fields in, sentences out. Nothing reads these sentences again."""
