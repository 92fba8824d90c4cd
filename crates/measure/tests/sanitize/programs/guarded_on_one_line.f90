! undefined: Index '0' of dimension 1 of array 'x' below lower bound of 1 (both sides of .and. count)
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double) :: x(8)
  integer :: i, j, k
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      c(:, i) = c(:, i) + b(:, k) * a(k, i)
    end do
  end do
  do i = 1, 8
    x(i) = i + abs(a(1, 1))
  end do
  j = 8
  ! The language lets both sides be evaluated, so this reads x(0).
  do while (j >= 1 .and. x(j) > 0)
    j = j - 1
  end do
  if (j > 0) c(1, 1) = 0
end subroutine
