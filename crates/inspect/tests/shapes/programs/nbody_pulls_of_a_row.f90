! problem: nbody
! techniques: fission
subroutine nbody(n, x, y, z, mass, ax, ay, az) bind(c, name="nbody")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: x(n), y(n), z(n), mass(n)
  real(c_double), intent(out) :: ax(n), ay(n), az(n)
  real(c_double), allocatable :: pull(:)
  real(c_double) :: square, sx, sy, sz
  integer :: i, j
  allocate (pull(n))
  do i = 1, n
    sx = 0
    sy = 0
    sz = 0
    do j = 1, n
      square = (x(j) - x(i)) * (x(j) - x(i)) + (y(j) - y(i)) * (y(j) - y(i)) + (z(j) - z(i)) * (z(j) - z(i)) + 0.01d0
      pull(j) = mass(j) / (square * sqrt(square))
    end do
    do j = 1, n
      sx = sx + pull(j) * (x(j) - x(i))
    end do
    do j = 1, n
      sy = sy + pull(j) * (y(j) - y(i))
    end do
    do j = 1, n
      sz = sz + pull(j) * (z(j) - z(i))
    end do
    ax(i) = sx
    ay(i) = sy
    az(i) = sz
  end do
  deallocate (pull)
end subroutine nbody
