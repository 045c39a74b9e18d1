// Command size measures how large the project is, and compares it with hack/size/ceilings.txt.
//
// A hard ceiling may only be lowered: measured values above it are an error. Soft values are compared with a
// recorded baseline, and one that has grown by more than 3 % is printed in capitals. See CONTRIBUTING.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("root", "../..", "`Directory` of the project")
	bin := flag.String("bin", "", "`Directory` with the binaries of the product. If empty, they aren't measured")
	planes := flag.Int("control-planes", -1, "`Number` of control planes that .ci/run has started. If negative, it isn't checked")
	flag.Parse()
	if err := run(os.Stdout, *root, *bin, *planes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, root, bin string, planes int) error {
	recorded, err := readCeilings(root)
	if err != nil {
		return err
	}
	measured, err := measure(root, bin, planes)
	if err != nil {
		return err
	}
	return errors.Join(print(out, recorded, measured), checkRaised(root, recorded))
}
