! honest: kinds by name and number, sizes declared apart, and arrays of assumed size
subroutine dgemm(n, a, b, c) bind(C)
  use, intrinsic :: iso_c_binding, only: wide => c_double
  implicit none
  integer, parameter :: dp = wide, short = selected_int_kind(9)
  integer(kind=short) :: n
  value :: n
  real(dp), intent(in) :: a(n, *), b(0:n*n - 1)
  double precision c
  dimension c(n, n)
  integer :: i, j, k
  do i = 1, n
    do j = 1, n
      c(j, i) = 0
    end do
    do k = 1, n
      do j = 1, n
        c(j, i) = c(j, i) + a(k, i)*b((k - 1)*n + j - 1)
      end do
    end do
  end do
end subroutine
