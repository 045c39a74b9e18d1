//go:build !linux

package enclosure

import "errors"

func mountAll(string, string) error { return errors.ErrUnsupported }
