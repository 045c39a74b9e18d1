package access

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Page selects the ApiClients that ListApiClients returns.
type Page struct {
	Namespace string // empty for all namespaces
	Realm     string // empty for all realms
	Limit     int
	Continue  string
}

// ListApiClients calls visit for each ApiClient of a page, in the order of the API server, until
// visit returns false. It decodes them while the response arrives, so it takes little longer than the
// API server. T should have only the fields that visit needs, because decoding all fields would take
// most of the time. next is the continue token. It is empty on the last page or if visit returned
// false.
func ListApiClients[T any](ctx context.Context, c *Client, page Page, visit func(*T) bool) (next string, err error) {
	request := c.rest.Get().AbsPath("apis", v1beta1.GroupVersion.Group, v1beta1.GroupVersion.Version).
		NamespaceIfScoped(page.Namespace, page.Namespace != "").Resource("apiclients").
		SetHeader("Accept", "application/json").Param("limit", strconv.Itoa(page.Limit))
	if page.Continue != "" {
		request.Param("continue", page.Continue)
	}
	if page.Realm != "" {
		request.Param("fieldSelector", fields.OneTermEqualSelector("spec.realmRef.name", page.Realm).String())
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("listing ApiClients: %w", err)
	}
	defer body.Close()
	next, err = decodeList(bufio.NewReaderSize(body, bufferSize), visit)
	if err != nil {
		return "", fmt.Errorf("listing ApiClients: %w", err)
	}
	// The connection can be reused only after the response has been read to its end.
	_, _ = io.CopyN(io.Discard, body, 1)
	return next, nil
}

// bufferSize is the size of reads from a response. The small reads of a json.Decoder would cause as
// many small HTTP/2 window updates.
const bufferSize = 64 << 10

var (
	errStopped   = errors.New("stopped by the visitor")
	errMalformed = errors.New("response is not a list")
)

// decodeList decodes a list item by item.
func decodeList[T any](body io.Reader, visit func(*T) bool) (next string, err error) {
	decoder := json.NewDecoder(body)
	err = decodeObject(decoder, func(key string) error {
		switch key {
		case "metadata":
			var metadata struct {
				Continue string `json:"continue"`
			}
			err := decoder.Decode(&metadata)
			next = metadata.Continue
			return err
		case "items":
			return decodeItems(decoder, visit)
		}
		return decoder.Decode(&json.RawMessage{})
	})
	if errors.Is(err, errStopped) {
		return "", nil
	}
	return next, err
}

// decodeObject calls value for each key of an object. value must decode the value of the key.
func decodeObject(decoder *json.Decoder, value func(key string) error) error {
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errMalformed, err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		if err := value(fmt.Sprint(key)); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

func decodeItems[T any](decoder *json.Decoder, visit func(*T) bool) error {
	switch start, err := decoder.Token(); {
	case err != nil || start != nil && start != json.Delim('['):
		return errors.Join(errMalformed, err)
	case start == nil:
		return nil // null is an empty list
	}
	for decoder.More() {
		item := new(T)
		if err := decoder.Decode(item); err != nil {
			return err
		}
		if !visit(item) {
			return errStopped
		}
	}
	_, err := decoder.Token()
	return err
}
