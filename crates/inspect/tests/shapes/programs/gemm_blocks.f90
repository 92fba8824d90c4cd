! problem: dgemm
! techniques: loop_reorder+cache_blocking
subroutine dgemm(n, a, b, c) bind(c, name="dgemm")
  use iso_c_binding, only: c_int, c_double
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer, parameter :: nb = 64
  integer :: i, k, kk, jj
  c = 0.0d0
  do kk = 1, n, nb
    do jj = 1, n, nb
      do i = 1, n
        do k = kk, min(kk + nb - 1, n)
          c(jj:min(jj + nb - 1, n), i) = c(jj:min(jj + nb - 1, n), i) + a(k, i) * b(jj:min(jj + nb - 1, n), k)
        end do
      end do
    end do
  end do
end subroutine dgemm
