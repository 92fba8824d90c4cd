typedef double V;
#define W 1
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n*n;i++)C[i]=0;
 for(int i=0;i<n;i++){
  for(int k=0;k<n;k++){
#pragma GCC unroll 2
   for(int j=0;j<n;j+=W)
    *(V*)&C[i*n+j]+=A[i*n+k]**(V*)&B[k*n+j];
  }
 }
}
