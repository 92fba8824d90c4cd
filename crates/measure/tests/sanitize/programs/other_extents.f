! undefined: Array bound mismatch for dimension 1 of array 'w'
      SUBROUTINE DGEMM(N, A, B, C) BIND(C, NAME='dgemm')
      USE ISO_C_BINDING
      IMPLICIT NONE
      INTEGER(C_INT), VALUE :: N
      REAL(C_DOUBLE) A(N,N), B(N,N), C(N,N), W(64)
      INTEGER I, J, K
      DO 30 I = 1, N
        DO 20 J = 1, N
          C(J,I) = 0
   20   CONTINUE
        DO 10 K = 1, N
          DO 5 J = 1, N
            C(J,I) = C(J,I) + B(J,K) * A(K,I)
    5     CONTINUE
   10   CONTINUE
   30 CONTINUE
      W = 0
      W(1:MIN(N,64)) = C(1:MIN(N,64)-1,1)
      IF (W(1) .GT. HUGE(1.0D0)) C(1,1) = 0
      RETURN
      END
