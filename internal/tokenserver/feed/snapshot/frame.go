package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A file starts with magic, followed by frames. Each frame has a 4-byte body length, a 4-byte
// CRC-32C of the body, and the body: one byte for the kind, then a protobuf-encoded Secret with
// only the fields that the kind needs, or a batch of them.
const (
	magic      = "realmkeeper records 2\n"
	headerSize = 8
	// maxRecord is larger than any object that the API server can store.
	maxRecord = 2 << 20
	// maxBody is larger than any record or batch.
	maxBody = 2 * maxRecord
)

// kind is the type of a frame.
type kind byte

const (
	written kind = 'w' // a new or updated record
	removed kind = 'r' // a deleted record
	reached kind = 'v' // the resource version of all preceding frames
	batched kind = 'b' // compressed records
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the encoded Secret with only those fields that are needed to read a record.
func encode(secret *corev1.Secret) ([]byte, error) {
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
	if len(body) > maxRecord {
		return nil, fmt.Errorf("encoding Secret %s: %d bytes exceed the maximum of %d", secret.Name, len(body), maxRecord)
	}
	return body, nil
}

// newFrame returns the encoded frame for a Secret.
func newFrame(k kind, secret *corev1.Secret) ([]byte, error) {
	body, err := encode(secret)
	if err != nil {
		return nil, err
	}
	return seal(append(startFrame(k), body...)), nil
}

// startFrame returns a frame without content. seal completes it.
func startFrame(k kind) []byte { return append(make([]byte, headerSize), byte(k)) }

// seal sets the header of a frame.
func seal(whole []byte) []byte {
	body := whole[headerSize:]
	binary.BigEndian.PutUint32(whole, uint32(len(body)))
	binary.BigEndian.PutUint32(whole[4:], crc32.Checksum(body, castagnoli))
	return whole
}

// decode returns the Secret in the content of a frame or batch.
func decode(content []byte) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if secret.Unmarshal(content) != nil {
		return nil, errDamaged
	}
	return secret, nil
}

// scan calls each for every complete frame in order, with its kind and its content, and returns the
// end of the last one. The content is valid until each returns. An incomplete frame at the end of the
// file is ignored: the process was killed while writing it, and has not yet reported the change.
//
// The error is errDamaged if any other content is malformed, or an error from each or from reading.
func scan(file io.Reader, each func(kind, []byte) error) (end int64, err error) {
	r := bufio.NewReaderSize(file, 64<<10)
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(r, start); err != nil || string(start) != magic {
		return 0, errors.Join(errDamaged, notEnd(err))
	}
	end = int64(len(magic))
	var body []byte
	for {
		header := make([]byte, headerSize)
		if _, err := io.ReadFull(r, header); err != nil {
			return end, notEnd(err)
		}
		size := binary.BigEndian.Uint32(header)
		if size == 0 || size > maxBody {
			return 0, errDamaged
		}
		if cap(body) < int(size) {
			body = make([]byte, size)
		}
		body = body[:size]
		if _, err := io.ReadFull(r, body); err != nil {
			return end, notEnd(err)
		}
		if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(header[4:]) {
			return 0, errDamaged
		}
		if err := each(kind(body[0]), body[1:]); err != nil {
			return 0, err
		}
		end += headerSize + int64(size)
	}
}

// notEnd returns err, or nil if err means that the file has ended.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
