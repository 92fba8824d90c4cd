typedef double V __attribute__((vector_size(32),aligned(8)));
#define W 4
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n*n;i++)C[i]=0;
 for(int l=0;l<n;l+=32)
 for(int i=0;i<n;i++){
  for(int k=0;k<n;k++){
   for(int j=l;j<l+32;j+=W)
    *(V*)&C[i*n+j]+=A[i*n+k]**(V*)&B[k*n+j];
  }
 }
}
