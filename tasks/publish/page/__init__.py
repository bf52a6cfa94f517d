"""The page of one comparison, with the files of logs and curves that it loads."""
