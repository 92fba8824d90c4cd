! problem: dsyrk
! techniques: packing
subroutine dsyrk(n, k, a, c) bind(c, name="dsyrk")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n, k
  real(c_double), intent(in) :: a(k, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double), allocatable :: row(:)
  real(c_double) :: total
  integer :: i, j, l
  allocate (row(k))
  do i = 1, n
    do l = 1, k
      row(l) = a(l, i)
    end do
    do j = 1, n
      total = 0
      do l = 1, k
        total = total + row(l) * a(l, j)
      end do
      c(j, i) = total
    end do
  end do
  deallocate (row)
end subroutine dsyrk
