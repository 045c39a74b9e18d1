package portal_test

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// reducePalette encodes a screenshot with its 64 most frequent colors. That is enough for text on
// plain backgrounds and reduces the size by two thirds.
func reducePalette(screenshot []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(screenshot))
	if err != nil {
		return nil, err
	}
	bounds := from.Bounds()
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		c, ok := color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)
		if !ok {
			panic("RGBAModel returned an unexpected color type")
		}
		return color.RGBA{c.R &^ 3, c.G &^ 3, c.B &^ 3, 255}
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	byCount := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	palette := color.Palette{}
	for _, c := range byCount[:min(len(byCount), 64)] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(bounds, palette)
	nearest := map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			index, ok := nearest[c]
			if !ok {
				index = uint8(palette.Index(c))
				nearest[c] = index
			}
			to.SetColorIndex(x, y, index)
		}
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&b, to)
	return b.Bytes(), err
}
