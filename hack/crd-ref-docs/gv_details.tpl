{{- define "gvDetails" -}}
{{- $gv := . -}}
The resources of `{{ $gv.GroupVersionString }}`:
{{- range $i, $kind := $gv.SortedKinds }}{{ if $i }},{{ end }} {{ $gv.TypeForKind $kind | markdownRenderTypeLink }}{{ end }}.

Fields are optional unless their rules include *required*. Rules that span several
fields, and the error messages of all rules, are in the custom resource definitions.
{{ range $gv.SortedTypes }}{{ if .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
