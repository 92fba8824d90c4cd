! problem: dgemm
! techniques: packing+layout_change
subroutine dgemm(n, a, b, c) bind(c, name="dgemm")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double), allocatable :: turned(:, :)
  real(c_double) :: total
  integer :: i, j, k
  allocate (turned(n, n))
  do k = 1, n
    do j = 1, n
      turned(k, j) = b(j, k)
    end do
  end do
  do i = 1, n
    do j = 1, n
      total = 0
      do k = 1, n
        total = total + a(k, i) * turned(k, j)
      end do
      c(j, i) = total
    end do
  end do
  deallocate (turned)
end subroutine dgemm
