// wrong_signature: must have the type
static void dgemm(int n,const double*A,const double*B,double*C){}
