{{- define "gvDetails" -}}
{{- $gv := . -}}
The resources of `{{ $gv.GroupVersionString }}`:
{{- range $gv.SortedKinds }} {{ $gv.TypeForKind . | markdownRenderTypeLink }}{{ end }}.

A field is optional unless its rules say *required*. Rules that relate fields, and
the messages of the API server when one is broken, are in the custom resource
definitions.
{{ range $gv.SortedTypes }}{{ if .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
