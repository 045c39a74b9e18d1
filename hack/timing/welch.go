package main

import (
	"math"
	"slices"
	"time"
)

// croppings is how many percentiles samples are cropped at, beside not at all.
const croppings = 100

// fewest is how many samples of each kind have to be left for a test.
const fewest = 100

// largestT returns the t of the largest |t| of Welch's tests over all samples and over those below each
// percentile of both kinds together: what delays some answers by chance hides a
// difference between the fast ones. It is positive where the first ones take longer.
func largestT(first, second []time.Duration) float64 {
	first, second = slices.Sorted(slices.Values(first)), slices.Sorted(slices.Values(second))
	all := slices.Sorted(slices.Values(slices.Concat(first, second)))
	largest := welch(first, second)
	for i := range croppings {
		share := 1 - math.Pow(0.5, float64(i+1)/10)
		at := all[int(share*float64(len(all)-1))]
		a, b := below(first, at), below(second, at)
		if len(a) < fewest || len(b) < fewest {
			continue
		}
		if t := welch(a, b); math.Abs(t) > math.Abs(largest) {
			largest = t
		}
	}
	return largest
}

// below returns the sorted samples that are shorter than that.
func below(sorted []time.Duration, than time.Duration) []time.Duration {
	n, _ := slices.BinarySearch(sorted, than)
	return sorted[:n]
}

// welch returns t of the difference of the means of two samples whose variances may differ
// (Welch, Biometrika 34, 1947); 0 when neither varies and the means are the same.
func welch(a, b []time.Duration) float64 {
	meanA, errorA := meanAndError(a)
	meanB, errorB := meanAndError(b)
	if meanA == meanB {
		return 0
	}
	return (meanA - meanB) / math.Sqrt(errorA+errorB)
}

// meanAndError returns the mean and the square of its standard error.
func meanAndError(samples []time.Duration) (mean, squared float64) {
	n := float64(len(samples))
	for _, s := range samples {
		mean += float64(s) / n
	}
	variance := 0.0
	for _, s := range samples {
		variance += (float64(s) - mean) * (float64(s) - mean) / (n - 1)
	}
	return mean, variance / n
}

func median(samples []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(samples))[len(samples)/2]
}
