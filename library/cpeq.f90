! libcpeq for Fortran: cpeq.h with Fortran's strings and Fortran's order of axes.
!
! Extents are those of the Fortran array: what the file calls [B,T,H,D] is an array (D,H,T,B) here, and nothing is
! transposed. `data` is any contiguous array of the kind that `dtype` names. A status is 0 (CPEQ_OK) or tells why not;
! the sentence is cpeq_error(handle).
module cpeq
    use, intrinsic :: iso_c_binding
    implicit none
    private

    public :: cpeq_fixture, cpeq_dump, cpeq_open, cpeq_create, cpeq_close, cpeq_finish, cpeq_error, cpeq_kind, cpeq_id
    public :: cpeq_has, cpeq_extents, cpeq_read, cpeq_attribute, cpeq_set, cpeq_write

    integer(c_int), parameter, public :: CPEQ_OK = 0, CPEQ_BAD_INPUT = 1, CPEQ_BAD_USAGE = 2, CPEQ_FAILED = 3
    integer(c_int), parameter, public :: CPEQ_FLOAT64 = 0, CPEQ_FLOAT32 = 1, CPEQ_BFLOAT16 = 3, CPEQ_INT64 = 4, &
        CPEQ_INT32 = 5, CPEQ_UINT8 = 6
    integer, parameter :: MAX_DIMS = 4

    type :: cpeq_fixture
        private
        type(c_ptr) :: handle = c_null_ptr
    end type

    type :: cpeq_dump
        private
        type(c_ptr) :: handle = c_null_ptr
    end type

    type, bind(c) :: c_array
        integer(c_int) :: dtype, dims
        integer(c_int64_t) :: extent(MAX_DIMS)
    end type

    !> Frees a handle; a dump that is not finished leaves nothing behind.
    interface cpeq_close
        procedure close_fixture, close_dump
    end interface

    !> Why the last call failed.
    interface cpeq_error
        procedure fixture_error, dump_error
    end interface

    !> status = cpeq_attribute(fixture, 'scale', value [, found]) of the root; without one `value` is left alone.
    interface cpeq_attribute
        procedure get_real, get_integer
    end interface

    !> status = cpeq_set(dump, 'cp_size', value): declares an attribute of the root.
    interface cpeq_set
        procedure set_text, set_integer, set_long, set_real
    end interface

    interface
        integer(c_int) function c_open(fixture, path) bind(c, name='cpeq_fixture_open')
            import
            type(c_ptr), intent(out) :: fixture
            character(kind=c_char), intent(in) :: path(*)
        end function
        subroutine c_close_fixture(fixture) bind(c, name='cpeq_fixture_close')
            import
            type(c_ptr), value :: fixture
        end subroutine
        type(c_ptr) function c_fixture_error(fixture) bind(c, name='cpeq_fixture_error')
            import
            type(c_ptr), value :: fixture
        end function
        type(c_ptr) function c_kind(fixture) bind(c, name='cpeq_fixture_kind')
            import
            type(c_ptr), value :: fixture
        end function
        type(c_ptr) function c_id(fixture) bind(c, name='cpeq_fixture_id')
            import
            type(c_ptr), value :: fixture
        end function
        integer(c_int) function c_has(fixture, name, found) bind(c, name='cpeq_fixture_has')
            import
            type(c_ptr), value :: fixture
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), intent(out) :: found
        end function
        integer(c_int) function c_describe(fixture, name, array) bind(c, name='cpeq_fixture_describe')
            import
            type(c_ptr), value :: fixture
            character(kind=c_char), intent(in) :: name(*)
            type(c_array), intent(out) :: array
        end function
        integer(c_int) function c_read(fixture, name, dtype, offset, count, data) bind(c, name='cpeq_fixture_read')
            import
            type(c_ptr), value :: fixture
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: dtype
            type(c_ptr), value :: offset, count
            type(*), intent(inout) :: data(*)
        end function
        integer(c_int) function c_real(fixture, object, name, val, found) bind(c, name='cpeq_fixture_real')
            import
            type(c_ptr), value :: fixture
            character(kind=c_char), intent(in) :: object(*), name(*)
            real(c_double), intent(inout) :: val
            integer(c_int), intent(out) :: found
        end function
        integer(c_int) function c_integer(fixture, object, name, val, found) bind(c, name='cpeq_fixture_integer')
            import
            type(c_ptr), value :: fixture
            character(kind=c_char), intent(in) :: object(*), name(*)
            integer(c_int64_t), intent(inout) :: val
            integer(c_int), intent(out) :: found
        end function
        integer(c_int) function c_create(dump, path, kind) bind(c, name='cpeq_dump_create')
            import
            type(c_ptr), intent(out) :: dump
            character(kind=c_char), intent(in) :: path(*), kind(*)
        end function
        subroutine c_close_dump(dump) bind(c, name='cpeq_dump_close')
            import
            type(c_ptr), value :: dump
        end subroutine
        integer(c_int) function c_finish(dump) bind(c, name='cpeq_dump_finish')
            import
            type(c_ptr), value :: dump
        end function
        type(c_ptr) function c_dump_error(dump) bind(c, name='cpeq_dump_error')
            import
            type(c_ptr), value :: dump
        end function
        integer(c_int) function c_set_text(dump, name, val) bind(c, name='cpeq_dump_set_text')
            import
            type(c_ptr), value :: dump
            character(kind=c_char), intent(in) :: name(*), val(*)
        end function
        integer(c_int) function c_set_integer(dump, name, val) bind(c, name='cpeq_dump_set_integer')
            import
            type(c_ptr), value :: dump
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: val
        end function
        integer(c_int) function c_set_real(dump, name, val) bind(c, name='cpeq_dump_set_real')
            import
            type(c_ptr), value :: dump
            character(kind=c_char), intent(in) :: name(*)
            real(c_double), value :: val
        end function
        integer(c_int) function c_write(dump, name, dtype, dims, shape, offset, count, data) &
            bind(c, name='cpeq_dump_write')
            import
            type(c_ptr), value :: dump
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: dtype, dims
            integer(c_int64_t), intent(in) :: shape(*)
            type(c_ptr), value :: offset, count
            type(*), intent(in) :: data(*)
        end function
        integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
            import
            type(c_ptr), value :: text
        end function
    end interface

contains

    function text_of(pointer) result(text)
        type(c_ptr), intent(in) :: pointer
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: characters(:)
        integer :: i, length
        length = int(c_strlen(pointer))
        call c_f_pointer(pointer, characters, [length])
        allocate (character(len=length) :: text)
        do i = 1, length
            text(i:i) = characters(i)
        end do
    end function

    ! ---- fixtures ----

    integer(c_int) function cpeq_open(fixture, path) result(status)
        type(cpeq_fixture), intent(out) :: fixture
        character(len=*), intent(in) :: path
        status = c_open(fixture%handle, trim(path)//c_null_char)
    end function

    subroutine close_fixture(fixture)
        type(cpeq_fixture), intent(inout) :: fixture
        call c_close_fixture(fixture%handle)
        fixture%handle = c_null_ptr
    end subroutine

    function fixture_error(fixture) result(text)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=:), allocatable :: text
        text = text_of(c_fixture_error(fixture%handle))
    end function

    function cpeq_kind(fixture) result(text)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=:), allocatable :: text
        text = text_of(c_kind(fixture%handle))
    end function

    function cpeq_id(fixture) result(text)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=:), allocatable :: text
        text = text_of(c_id(fixture%handle))
    end function

    !> False also where the fixture cannot be read.
    logical function cpeq_has(fixture, name) result(has)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=*), intent(in) :: name
        integer(c_int) :: found
        has = c_has(fixture%handle, trim(name)//c_null_char, found) == CPEQ_OK
        has = has .and. found /= 0
    end function

    integer(c_int) function cpeq_extents(fixture, name, extents) result(status)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=*), intent(in) :: name
        integer(c_int64_t), allocatable, intent(out) :: extents(:)
        type(c_array) :: array
        status = c_describe(fixture%handle, trim(name)//c_null_char, array)
        if (status == CPEQ_OK) extents = array%extent(array%dims:1:-1)
    end function

    !> The whole array, converted as cpeq_fixture_read does it.
    integer(c_int) function cpeq_read(fixture, name, dtype, data) result(status)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=*), intent(in) :: name
        integer(c_int), intent(in) :: dtype
        type(*), intent(inout) :: data(*)
        status = c_read(fixture%handle, trim(name)//c_null_char, dtype, c_null_ptr, c_null_ptr, data)
    end function

    integer(c_int) function get_real(fixture, name, value, found) result(status)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=*), intent(in) :: name
        real(c_double), intent(inout) :: value
        logical, intent(out), optional :: found
        integer(c_int) :: there
        status = c_real(fixture%handle, '/'//c_null_char, trim(name)//c_null_char, value, there)
        if (present(found)) found = there /= 0
    end function

    integer(c_int) function get_integer(fixture, name, value, found) result(status)
        type(cpeq_fixture), intent(in) :: fixture
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(inout) :: value
        logical, intent(out), optional :: found
        integer(c_int) :: there
        status = c_integer(fixture%handle, '/'//c_null_char, trim(name)//c_null_char, value, there)
        if (present(found)) found = there /= 0
    end function

    ! ---- dumps ----

    !> `kind` is 'dump' or 'attention'.
    integer(c_int) function cpeq_create(dump, path, kind) result(status)
        type(cpeq_dump), intent(out) :: dump
        character(len=*), intent(in) :: path, kind
        status = c_create(dump%handle, trim(path)//c_null_char, trim(kind)//c_null_char)
    end function

    subroutine close_dump(dump)
        type(cpeq_dump), intent(inout) :: dump
        call c_close_dump(dump%handle)
        dump%handle = c_null_ptr
    end subroutine

    integer(c_int) function cpeq_finish(dump) result(status)
        type(cpeq_dump), intent(in) :: dump
        status = c_finish(dump%handle)
    end function

    function dump_error(dump) result(text)
        type(cpeq_dump), intent(in) :: dump
        character(len=:), allocatable :: text
        text = text_of(c_dump_error(dump%handle))
    end function

    integer(c_int) function set_text(dump, name, value) result(status)
        type(cpeq_dump), intent(in) :: dump
        character(len=*), intent(in) :: name, value
        status = c_set_text(dump%handle, trim(name)//c_null_char, trim(value)//c_null_char)
    end function

    integer(c_int) function set_integer(dump, name, value) result(status)
        type(cpeq_dump), intent(in) :: dump
        character(len=*), intent(in) :: name
        integer(c_int), intent(in) :: value
        status = c_set_integer(dump%handle, trim(name)//c_null_char, int(value, c_int64_t))
    end function

    integer(c_int) function set_long(dump, name, value) result(status)
        type(cpeq_dump), intent(in) :: dump
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(in) :: value
        status = c_set_integer(dump%handle, trim(name)//c_null_char, value)
    end function

    integer(c_int) function set_real(dump, name, value) result(status)
        type(cpeq_dump), intent(in) :: dump
        character(len=*), intent(in) :: name
        real(c_double), intent(in) :: value
        status = c_set_real(dump%handle, trim(name)//c_null_char, value)
    end function

    !> A slab as cpeq_dump_write takes it: `extents` are those of the whole array; without offset and count `data` is
    !> everything.
    integer(c_int) function cpeq_write(dump, name, dtype, extents, data, offset, count) result(status)
        type(cpeq_dump), intent(in) :: dump
        character(len=*), intent(in) :: name
        integer(c_int), intent(in) :: dtype
        integer, intent(in) :: extents(:)
        type(*), intent(in) :: data(*)
        integer, intent(in), optional :: offset(:), count(:)
        integer(c_int64_t), target :: c_extents(MAX_DIMS), c_offset(MAX_DIMS), c_count(MAX_DIMS)
        type(c_ptr) :: from, many
        integer :: dims
        dims = size(extents)
        from = c_null_ptr
        many = c_null_ptr
        if (dims <= MAX_DIMS) c_extents(:dims) = int(extents(dims:1:-1), c_int64_t)
        if (present(offset) .and. dims <= MAX_DIMS) then
            c_offset(:dims) = int(offset(dims:1:-1), c_int64_t)
            from = c_loc(c_offset)
        end if
        if (present(count) .and. dims <= MAX_DIMS) then
            c_count(:dims) = int(count(dims:1:-1), c_int64_t)
            many = c_loc(c_count)
        end if
        status = c_write(dump%handle, trim(name)//c_null_char, dtype, int(dims, c_int), c_extents, from, many, data)
    end function

end module
