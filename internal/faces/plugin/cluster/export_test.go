package cluster

import (
	"net/http"
	"time"
)

// NextSecondAfter returns the time that the plugin writes to a spec after it has received the
// response.
func NextSecondAfter(response *http.Response) (time.Time, error) {
	clock := &Clock{}
	_, err := clock.observe(response, nil)
	return clock.Next(), err
}
