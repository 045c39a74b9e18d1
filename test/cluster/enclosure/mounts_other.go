//go:build !linux

package enclosure

import "errors"

func arrange(string, string) error { return errors.ErrUnsupported }
