// wrong_signature: must have the type
int dgemm(int n,const double*A,const double*B,double*C){return 0;}
