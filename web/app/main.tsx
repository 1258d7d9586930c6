/** My phone: starts the page. */

import "../ui/trusted.ts";
import "../ui/base.css";

import { render } from "preact";

render(<h1>My phone</h1>, document.getElementById("page")!);
