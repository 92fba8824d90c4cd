// missing_entry: dgemm
