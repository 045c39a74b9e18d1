package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestWelch(t *testing.T) {
	tests := map[string]struct {
		a, b []time.Duration
		want float64
	}{
		// The means are 3 and 4, the variances of the means 2.5/5 and 10/5.
		"by hand":          {[]time.Duration{1, 2, 3, 4, 5}, []time.Duration{0, 2, 4, 6, 8}, -1 / math.Sqrt(2.5)},
		"other sizes":      {[]time.Duration{1, 3}, []time.Duration{2, 2, 2, 2}, 0},
		"without variance": {[]time.Duration{2, 2}, []time.Duration{2, 2}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := welch(tc.a, tc.b); math.Abs(got-tc.want) > 1e-12 {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// A difference of a hundredth among fast answers is found below the delays that hide it, and
// none is found where there is none.
func TestLargestT(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	times := func(usual float64) []time.Duration {
		made := make([]time.Duration, 20_000)
		for i := range made {
			took := usual + 100*random.NormFloat64()
			if random.IntN(20) == 0 {
				took += 1e6 * random.ExpFloat64()
			}
			made[i] = time.Duration(took)
		}
		return made
	}
	a, b, slower := times(2000), times(2000), times(2020)
	if got := largestT(a, b); math.Abs(got) >= threshold {
		t.Errorf("|t| is %.2f without a difference", got)
	}
	if got := math.Abs(welch(a, slower)); got >= threshold {
		t.Errorf("|t| is %.2f without cropping: the delays hide nothing", got)
	}
	if got := largestT(a, slower); got > -threshold {
		t.Errorf("t is %.2f with a difference", got)
	}
}
