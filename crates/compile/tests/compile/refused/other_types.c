// wrong_signature: must have the type
void dgemm(int n,const float*A,const float*B,float*C){}
