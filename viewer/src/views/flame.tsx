// SPDX-License-Identifier: Apache-2.0
import { FlameView } from "../flame/flame_view.tsx";
import type { ViewProps } from "../view.ts";

export default function Flame(props: ViewProps) {
	return <FlameView {...props} difference={false} />;
}
