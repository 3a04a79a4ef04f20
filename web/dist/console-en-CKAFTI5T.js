import{Va as o,a as p,c as m}from"./chunk-JV7XFFAH.js";m(p(o,null),document.getElementById("app"));
