package snapshot

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// batchSize is how many bytes of records are compressed together. Records have most of their text
// in common, so compression reduces their size to about a third. A batch is well below maxBody,
// even with the largest record.
const batchSize = 128 << 10

// batchWriter writes records in compressed batches. A batch is a sequence of encoded Secrets, each
// after its length.
type batchWriter struct {
	to         io.Writer
	raw        bytes.Buffer
	compressor *flate.Writer
}

func newBatchWriter(to io.Writer) (*batchWriter, error) {
	compressor, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	return &batchWriter{to: to, compressor: compressor}, nil
}

// add adds an encoded Secret.
func (w *batchWriter) add(record []byte) error {
	w.raw.Write(binary.AppendUvarint(nil, uint64(len(record))))
	w.raw.Write(record)
	if w.raw.Len() < batchSize {
		return nil
	}
	return w.flush()
}

// flush writes the records that were added since the last batch.
func (w *batchWriter) flush() error {
	if w.raw.Len() == 0 {
		return nil
	}
	frame := bytes.NewBuffer(startFrame(batched))
	w.compressor.Reset(frame)
	if _, err := w.compressor.Write(w.raw.Bytes()); err != nil {
		return err
	}
	if err := w.compressor.Close(); err != nil {
		return err
	}
	w.raw.Reset()
	_, err := w.to.Write(seal(frame.Bytes()))
	return err
}

// eachInBatch calls each with every encoded Secret in the content of a batch. The slice is valid
// until each returns.
func eachInBatch(content []byte, each func(record []byte) error) error {
	// A batch ends with the record that exceeds batchSize.
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(content)), batchSize+maxRecord+binary.MaxVarintLen64))
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	for len(raw) > 0 {
		size, n := binary.Uvarint(raw)
		if n <= 0 || size > uint64(len(raw)-n) {
			return errDamaged
		}
		if err := each(raw[n : n+int(size)]); err != nil {
			return err
		}
		raw = raw[n+int(size):]
	}
	return nil
}

var errUnknownKind = errors.New("unknown kind of frame")

// walk calls each for every record of a file in order: with its kind, its Secret, and its encoded form,
// which is valid until each returns. It returns the end of the last complete frame.
func walk(file io.Reader, each func(k kind, secret *corev1.Secret, encoded []byte) error) (end int64, err error) {
	one := func(k kind) func([]byte) error {
		return func(encoded []byte) error {
			secret, err := decode(encoded)
			if err != nil {
				return err
			}
			return each(k, secret, encoded)
		}
	}
	return scan(file, func(k kind, content []byte) error {
		switch k {
		case batched:
			return eachInBatch(content, one(written))
		case written, removed, reached:
			return one(k)(content)
		}
		return fmt.Errorf("%w: %w", errDamaged, errUnknownKind)
	})
}
