import{v as t,w as e}from"./chunk-4ZBABXCC.js";function f(){return e("h1",{children:t("fleet")})}export{f as default};
