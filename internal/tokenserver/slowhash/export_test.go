package slowhash

// NewWithCores is New on a machine with the given number of cores.
func NewWithCores(o Options, cores int) *Checker {
	c := New(o)
	c.slots = slots(cores)
	return c
}
