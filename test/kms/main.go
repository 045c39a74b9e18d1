//go:build cgo

// Command kms is a KMS v2 plugin for tests. Its keys are in a SoftHSM token, whose files are in a
// directory. Several processes can use the same directory.
//
//	kms serve --token DIR --socket PATH
//	kms rotate --token DIR    generates a key, which encrypts from now on
//	kms prune --token DIR     destroys all older keys
//
// The first command creates the token, and generates its PIN and the first key. With --seed, it unpacks
// a copy of another token's directory instead, so that plugins on several machines have the same keys:
//
//	tar -C DIR -cf FILE .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/kms/pkg/service"

	"github.com/realmkeeper/realmkeeper/test/kms/softhsm"
)

const usage = "usage: kms serve|rotate|prune --token DIR [--socket PATH] [--module PATH] [--seed FILE]"

var errUsage = errors.New(usage)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kms:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("kms "+args[0], flag.ContinueOnError)
	dir := flags.String("token", "", "`Directory` of the token (required)")
	module := flags.String("module", softhsm.Module, "`Path` of the PKCS#11 library")
	seed := flags.String("seed", "", "Archive to unpack if the directory of the token is empty")
	socket := flags.String("socket", "", "`Path` of the Unix socket (required for serve)")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() > 0 || (args[0] == "serve") != (*socket != "") {
		return errUsage
	}
	if err := unpack(*seed, *dir); err != nil {
		return fmt.Errorf("unpack the token: %w", err)
	}
	token, err := softhsm.Open(*module, *dir)
	if err != nil {
		return err
	}
	defer token.Close()
	switch args[0] {
	case "serve":
		return serve(ctx, token, *socket)
	case "rotate":
		id, err := token.Rotate()
		if err == nil {
			_, err = fmt.Fprintln(out, id)
		}
		return err
	case "prune":
		count, err := token.Prune()
		if err == nil {
			_, err = fmt.Fprintln(out, count)
		}
		return err
	default:
		return errUsage
	}
}

func serve(ctx context.Context, token *softhsm.Token, socket string) error {
	// A killed process leaves its socket.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	server := service.NewGRPCService(socket, 5*time.Second, &softhsm.Service{Token: token, Log: log})
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Info("Serving", "socket", socket)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		server.Shutdown()
		return nil
	}
}
