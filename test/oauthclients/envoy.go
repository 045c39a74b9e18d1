package main

import (
	"encoding/json"
	"errors"
	"io"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

var errNoMessage = errors.New("there is no message")

// envoy checks messages: that all of their fields and types exist, and their values with the rules of Envoy.
func envoy(in io.Reader) error {
	decoder := json.NewDecoder(in)
	for n := 0; ; n++ {
		var content json.RawMessage
		if err := decoder.Decode(&content); errors.Is(err, io.EOF) && n > 0 {
			return nil
		} else if errors.Is(err, io.EOF) {
			return errNoMessage
		} else if err != nil {
			return err
		}
		var typed struct {
			Type string `json:"@type"`
		}
		if err := json.Unmarshal(content, &typed); err != nil {
			return err
		}
		message := proto.Message(&discovery.DiscoveryResponse{})
		if typed.Type != "" {
			message = &anypb.Any{}
		}
		if err := protojson.Unmarshal(content, message); err != nil {
			return err
		}
		if err := protorange.Range(message.ProtoReflect(), validate); err != nil {
			return err
		}
	}
}

// validate checks the last message of a path. A path leads into messages of any type, too.
func validate(path protopath.Values) error {
	message, ok := path.Index(-1).Value.Interface().(protoreflect.Message)
	if !ok {
		return nil
	}
	if v, ok := message.Interface().(interface{ ValidateAll() error }); ok {
		return v.ValidateAll()
	}
	return nil
}
