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

// A file is magic and then frames. A frame is the length and the CRC-32C of its body, four
// bytes each, and the body: a byte for its kind and a Secret in protobuf, of which only
// what the kind needs is there.
const (
	magic      = "realmkeeper records 1\n"
	headerSize = 8
	// maxBody is more than an API server stores in one object.
	maxBody = 4 << 20
)

// kind says what a frame tells.
type kind byte

const (
	written kind = 'w' // a record as it is from now on
	removed kind = 'r' // the record of that name is gone
	reached kind = 'v' // the version that the frames before come to
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is one entry of the file, and where it begins.
type frame struct {
	kind   kind
	secret *corev1.Secret
	offset int64
	bytes  []byte // header and body, as they stand in the file
}

// newFrame returns the frame of a Secret, stripped to what a record is read from.
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
		return nil, fmt.Errorf("encoding Secret %s: %d bytes are too many", secret.Name, len(body))
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

// scan calls each with every whole frame in order, and returns where the last one ends. A
// frame that the file ends in the midst of was being written when the process was killed:
// nothing was promised of it yet.
//
// The error is errDamaged for anything else, or that of each or of reading.
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

// notEnd is err unless that says that the file is at its end.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
