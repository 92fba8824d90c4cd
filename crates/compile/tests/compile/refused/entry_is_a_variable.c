// wrong_signature: must have the type
int dgemm;
