package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A file starts with magic, followed by frames. Each frame has a 4-byte body length, a 4-byte
// CRC-32C of the body, and the body: one byte for the kind, then a protobuf-encoded Secret with
// only the fields that the kind needs.
const (
	magic      = "realmkeeper records 1\n"
	headerSize = 8
	// maxBody is larger than any object that the API server can store.
	maxBody = 4 << 20
)

// kind is the type of a frame.
type kind byte

const (
	written kind = 'w' // a new or updated record
	removed kind = 'r' // a deleted record
	reached kind = 'v' // the resource version of all preceding frames
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is an entry in the file and its position.
type frame struct {
	kind   kind
	secret *corev1.Secret
	offset int64
	bytes  []byte // header and body, as stored in the file
}

// newFrame returns the encoded frame for a Secret. It contains only those fields of the Secret that
// are needed to read a record.
func newFrame(k kind, secret *corev1.Secret) ([]byte, error) {
	stripped := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secret.Name, Namespace: secret.Namespace, ResourceVersion: secret.ResourceVersion,
			CreationTimestamp: secret.CreationTimestamp,
		},
		Data: secret.Data,
	}
	body, err := stripped.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encoding Secret %s: %w", secret.Name, err)
	}
	if len(body)+1 > maxBody {
		return nil, fmt.Errorf("encoding Secret %s: %d bytes exceed the maximum of %d", secret.Name, len(body)+1, maxBody)
	}
	whole := make([]byte, headerSize, headerSize+1+len(body))
	whole = append(append(whole, byte(k)), body...)
	binary.BigEndian.PutUint32(whole, uint32(len(body)+1))
	binary.BigEndian.PutUint32(whole[4:], crc32.Checksum(whole[headerSize:], castagnoli))
	return whole, nil
}

func writeFrame(to io.Writer, k kind, secret *corev1.Secret) error {
	whole, err := newFrame(k, secret)
	if err != nil {
		return err
	}
	_, err = to.Write(whole)
	return err
}

// scan calls each for every complete frame in order and returns the end of the last one. An
// incomplete frame at the end of the file is ignored: the process was killed while writing it, and
// has not yet reported the change.
//
// The error is errDamaged if any other content is malformed, or an error from each or from reading.
func scan(file io.Reader, each func(frame) error) (end int64, err error) {
	r := bufio.NewReaderSize(file, 64<<10)
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(r, start); err != nil || string(start) != magic {
		return 0, errors.Join(errDamaged, notEnd(err))
	}
	end = int64(len(magic))
	for {
		header := make([]byte, headerSize)
		if _, err := io.ReadFull(r, header); err != nil {
			return end, notEnd(err)
		}
		size := binary.BigEndian.Uint32(header)
		if size == 0 || size > maxBody {
			return 0, errDamaged
		}
		whole := slices.Concat(header, make([]byte, size))
		body := whole[headerSize:]
		if _, err := io.ReadFull(r, body); err != nil {
			return end, notEnd(err)
		}
		f := frame{kind: kind(body[0]), secret: &corev1.Secret{}, offset: end, bytes: whole}
		if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(header[4:]) || f.secret.Unmarshal(body[1:]) != nil {
			return 0, errDamaged
		}
		if err := each(f); err != nil {
			return 0, err
		}
		end += int64(len(whole))
	}
}

// notEnd returns err, or nil if err means that the file has ended.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
